# syntax=docker/dockerfile:1.7

# The server, and the client beside it, in an image of nothing else.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t hindsight .
#   docker run -v hindsight:/data -p 50051:50051 -p 9464:9464 hindsight

FROM golang:1.26 AS build
WORKDIR /src
# Modules change more seldom than code and get a layer of their own.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
# TestImageHasItsSources fails when the programs need a directory that is not
# here, or that .dockerignore leaves out.
COPY api api
COPY client client
COPY cmd cmd
COPY internal internal
COPY web web
ARG VERSION=dev
# The empty directory is what a fresh volume on /data starts from, owner and
# all.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/hindsight-server ./cmd/server && \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/hindsight ./cmd/client && \
    mkdir /out/data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/hindsight-server /out/hindsight /
COPY --from=build --chown=65532:65532 /out/data /data
ENV HINDSIGHT_DATA_DIR=/data
# nonroot, by its number: Kubernetes' runAsNonRoot takes no name's word for it.
USER 65532:65532
# After the directory has its owner: what comes later is not in the volume.
VOLUME ["/data"]
EXPOSE 50051 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/hindsight-server", "healthcheck"]
ENTRYPOINT ["/hindsight-server"]
