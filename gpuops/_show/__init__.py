"""What is shown: tables, pictures, sources, results, what calls take."""
