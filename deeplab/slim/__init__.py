"""TF-Slim's programs for image classification, on the training and evaluation of this package."""
