"""The front doors: each translates one platform into questions and answers, nothing else."""
