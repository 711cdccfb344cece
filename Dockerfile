# The container image, from a checkout: docker build .   podman build .   az acr build .
# packaging/image/build puts the programs of a release in place of the first stage.
FROM docker.io/library/rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
RUN apt-get update && apt-get install --yes --no-install-recommends musl-tools
COPY . /src
WORKDIR /src
ARG REVISION=unknown
RUN SOURCE_DATE_EPOCH=0 BUILD_REVISION="$REVISION" packaging/binary "$(uname -m)-unknown-linux-musl" >/program \
    && packaging/image/root "$(cat /program)" /out

FROM scratch
COPY --from=build /out/root/ /
# The directory of the volume, which takes its owner and mode
COPY --from=build --chown=65532:65532 /out/nonroot/ /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="azure-scheduled-events-exporter" \
      org.opencontainers.image.description="Prometheus and OpenTelemetry exporter for Azure Scheduled Events" \
      org.opencontainers.image.source="https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# The default of --state.directory
ENV PATH=/usr/bin STATE_DIRECTORY=/state
VOLUME /state
EXPOSE 10169
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/azure-scheduled-events-exporter"]
