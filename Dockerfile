# A small image with accel-run for the CPU, from the package that `make dist` wrote (with BuildKit):
#   docker build -t accel-run .
#   docker run --rm -v "$PWD:/data" accel-run recipe.yaml
FROM debian:bookworm-slim
RUN --mount=type=bind,source=dist,target=/dist \
    apt-get update && \
    apt-get install -y --no-install-recommends /dist/accel-run_*.deb ca-certificates libcurl4 && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /data
ENTRYPOINT ["accel-run"]
