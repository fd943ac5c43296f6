"""A shop."""
from dataclasses import dataclass

MAX_ITEMS = 10
registry = {}


@dataclass
class Item:
    name: str
    price: int = 0

    def total(self, count):
        result = self.price * count
        return result

    async def fetch(self, *, timeout=1.0) -> "Item":
        def retry():
            return self.total(1)  # total in a comment
        return retry()


def checkout(items, discount=lambda x: x):
    text = "checkout Item"
    return [Item(i).total(2) for i in items]
