"""Files and storage: reading, atomic writing, locks."""
