#!/bin/sh
# Builds the deb and the rpm of each architecture:
#
#   NFPM=… VERSION=… deploy/package/build.sh DIRECTORY amd64 arm64
#
# The completions are those that the command line itself writes.
set -eu
cd "$(dirname "$0")/../.."

out="$1"
shift
go="${GO:-go}"
host="$("$go" env GOHOSTARCH)"

# A version that is no release comes before all releases.
case "$VERSION" in
v[0-9]*.*.*) PACKAGE_VERSION="${VERSION#v}" ;;
[0-9]*.*.*) PACKAGE_VERSION="$VERSION" ;;
*) PACKAGE_VERSION="0.0.0-dev.$(printf %s "$VERSION" | tr -c '0-9A-Za-z.' .)" ;;
esac
# The same commit gives the same packages.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export PACKAGE_VERSION SOURCE_DATE_EPOCH

rm -rf "$out"
for arch in "$host" "$@"; do
	STAGE="$out/stage/$arch"
	[ -x "$STAGE/hindsight" ] && continue
	mkdir -p "$STAGE"
	for program in server:hindsight-server client:hindsight; do
		CGO_ENABLED=0 GOOS=linux GOARCH="$arch" "$go" build -tags grpcnotrace -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w -X main.version=$VERSION" \
			-o "$STAGE/${program#*:}" "./cmd/${program%:*}"
	done
done

built="$out/stage/$host/hindsight"
for ARCH in "$@"; do
	STAGE="$out/stage/$ARCH"
	mkdir -p "$STAGE/man8" "$STAGE/completion"
	cp deploy/package/hindsight-server.8 "$STAGE/man8"
	gzip -9nf "$STAGE"/man8/*.8
	for shell in bash zsh fish; do "$built" completion "$shell" >"$STAGE/completion/$shell"; done
	export ARCH STAGE
	for packager in deb rpm; do
		"$NFPM" package --config deploy/package/nfpm.yaml --packager "$packager" --target "$out"
	done
done
rm -rf "$out/stage"
(cd "$out" && sha256sum -- *.deb *.rpm >SHA256SUMS)
