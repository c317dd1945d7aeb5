"""The version of the programs, the image and the package."""

VERSION = "0.1.0"
