#!/bin/sh
# Writes the digest of each image behind its tag, in the files that are given:
#
#   deploy/image/pin.sh Dockerfile deploy/compose.yaml
#
# A digest names one image for ever, with all its platforms. It is asked of the registry
# by docker buildx. An image that has a digest gets the one that its tag has now.
set -eu

for file in "$@"; do
	# Of "# syntax=", "ARG …_IMAGE=" and "image:", those that name a registry's image.
	sed -nE 's/^(# syntax=|ARG [A-Z]+_IMAGE=|[[:space:]]+image: )([^@[:space:]]+:[^@[:space:]]+).*$/\2/p' "$file" | sort -u |
		while read -r image; do
			digest="$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')"
			case "$digest" in
			sha256:*) ;;
			*)
				echo "pin: $image has the digest '$digest', want sha256:…" >&2
				exit 1
				;;
			esac
			name="$(printf %s "$image" | sed 's/[.]/\\./g')"
			sed -E "s#(=| )$name(@sha256:[0-9a-f]+)?\$#\\1$image@$digest#" "$file" >"$file.pinned"
			cat "$file.pinned" >"$file"
			rm "$file.pinned"
			echo "$file: $image@$digest"
		done
done
