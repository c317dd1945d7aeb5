# syntax=docker/dockerfile:1.7

# The server, and the client beside it, in an image of nothing else.
#
#   docker build -t hindsight .
#   docker run -v hindsight:/data -p 127.0.0.1:50051:50051 -p 127.0.0.1:9464:9464 hindsight
#
# "make docker-pin" writes the digests of the images below behind their tags.
ARG GO_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot

# The compiler runs on the machine that builds, whatever it builds for.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
# Modules change more seldom than code and get a layer of their own.
COPY go.mod go.sum ./
COPY third_party/lz4 third_party/lz4
RUN --mount=type=cache,target=/go/pkg/mod go mod download
# TestImageHasItsSources fails when the programs need a directory that is not
# here, or that .dockerignore leaves out.
COPY api api
COPY client client
COPY cmd cmd
COPY internal internal
COPY web web
ARG VERSION=0.1.0
ARG TARGETOS
ARG TARGETARCH
# The empty directory is what a fresh volume on /data starts from, owner and
# all.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    export CGO_ENABLED=0 GOOS="${TARGETOS}" GOARCH="${TARGETARCH}" && \
    go build -tags grpcnotrace -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/hindsight-server ./cmd/server && \
    go build -tags grpcnotrace -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/hindsight ./cmd/client && \
    mkdir /out/data

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="hindsight" \
      org.opencontainers.image.description="Online learning server: predict, observe, and know what the predictions were worth" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /out/hindsight-server /out/hindsight /
COPY --from=build --chown=65532:65532 /out/data /data
# The container's network is its own, so that every address of it is answered.
ENV HINDSIGHT_DATA_DIR=/data \
    HINDSIGHT_GRPC_ADDRESS=:50051 \
    HINDSIGHT_HTTP_ADDRESS=:9464
# nonroot, by its number: Kubernetes' runAsNonRoot takes no name's word for it.
USER 65532:65532
# After the directory has its owner: what comes later is not in the volume.
VOLUME ["/data"]
EXPOSE 50051 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/hindsight-server", "healthcheck"]
ENTRYPOINT ["/hindsight-server"]
