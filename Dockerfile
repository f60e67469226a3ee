# The bot with its embedding model inside: nothing is downloaded at run time.
FROM python:3.12-slim AS build
WORKDIR /app
RUN python -m venv /venv
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY bot bot
COPY adapters adapters
COPY rag rag
COPY courses courses
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation --editable .

FROM python:3.12-slim
# OpenMP for ONNX Runtime; nothing else is needed beyond Python.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 footnote \
 && install --directory --owner footnote --group footnote /data
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
USER footnote
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 FOOTNOTE_DATA_DIR=/data
VOLUME /data
# Seldom: it loads the model and asks every platform and provider.
HEALTHCHECK --interval=5m --timeout=60s --start-period=2m --retries=3 \
  CMD ["footnote", "doctor"]
ENTRYPOINT ["footnote"]
CMD ["run"]
