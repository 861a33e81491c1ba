"""Parts of `deeplab export_model`: images, comparison with the checkpoint, and figures of an export."""
