"""Where the copies of a network run."""
