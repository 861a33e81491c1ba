"""The known data sets: each module registers one `DatasetDescriptor` and is found without being listed."""
