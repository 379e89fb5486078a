"""How many coordinates a feature map makes, by arithmetic: known before anything is built."""

__all__ = ["mapped_width", "products"]


def products(width: int, degree: int, most: int) -> int:
    """Return how many products of 1 to ``degree`` of ``width`` columns there are.

    C(width + degree, degree) - 1, factor by factor; beyond ``most`` it is most + 1, so that no
    large number is made.
    """
    total, larger = 1, max(width, degree)
    for i in range(1, min(width, degree) + 1):
        total = total * (larger + i) // i
        if total - 1 > most:
            return most + 1
    return total - 1


def mapped_width(kind: str, size: int, width: int, most: int) -> int:
    """Return the most coordinates that a map of this kind and size makes of ``width`` columns."""
    return products(width, size, most) if kind == "polynomial" else size
