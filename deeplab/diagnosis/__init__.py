"""Diagnosis of a data set: where its images and masks are, what is measured, the rules, the suggested command line."""
