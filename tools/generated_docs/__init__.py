"""The generated tables of the documents: `python -m tools.generated_docs` writes them."""
