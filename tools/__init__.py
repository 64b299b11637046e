"""Programs for work on the checkout; the wheel does not have them."""
