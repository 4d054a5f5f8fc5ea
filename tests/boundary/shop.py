"""The first service: it publishes orders."""

from tests.boundary.places import Place

from holdfast import Backoff, Holdfast

place = Place.here()
hf = Holdfast(source="shop")
hf.relay(
    "order.*",
    to=place.transport(),
    name="webhooks" if place.kind == "webhooks" else "bus",
    ordered=place.ordered,
    max_attempts=100,
    retry=Backoff(base=0.05, cap=0.2),
)
