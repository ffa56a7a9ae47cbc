"""What is above the call of rdf: readers, boxes, atoms, labels, and the sum over frames."""
