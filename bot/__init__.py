"""The application: settings, construction, conversations, the inbox and the command line."""
