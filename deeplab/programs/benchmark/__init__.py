"""`deeplab benchmark`: measurements of a network or of exports, each in a process of its own."""
