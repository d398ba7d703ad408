"""`culvert-controller setup`: from an installed package to a controller that serves, or to nothing changed."""
