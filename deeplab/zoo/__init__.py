"""The published checkpoints: what each is, where it is downloaded, and the download."""
