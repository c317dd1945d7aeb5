"""The generated messages of an error's details."""
