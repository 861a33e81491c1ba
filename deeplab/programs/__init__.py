"""Programs that the original does not have."""
