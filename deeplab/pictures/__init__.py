"""Drawing: masks over images, legends, sheets, pages."""
