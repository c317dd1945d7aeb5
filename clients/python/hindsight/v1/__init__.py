"""The generated stubs of the API hindsight.v1."""
