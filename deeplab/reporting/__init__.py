"""Report pages: what a training wrote, results of each image, statistics, pictures, one HTML file."""
