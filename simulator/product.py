"""The simulated GPU products: their fixed properties and MIG profiles.

It is the only table of them: the C library gets it as a generated header
(`simulator.build`), the ResourceSlices are composed from it. Pure.
"""

from simulator.product_shapes import MigProfile, Product
from simulator.products_ampere import A100, A100_80GB
from simulator.products_blackwell import B200, GB200
from simulator.products_hopper import H100, H200

__all__ = ["PRODUCTS", "SHORT_NAMES", "MigProfile", "Product"]
__all__ += ["A100", "A100_80GB", "B200", "GB200", "H100", "H200"]

SHORT_NAMES = {
    "H100": H100,
    "A100": A100,
    "A100-80GB": A100_80GB,
    "H200": H200,
    "B200": B200,
    "GB200": GB200,
}
"""What the command line takes."""
PRODUCTS = {product.name: product for product in SHORT_NAMES.values()}
