"""Holdfast inside frameworks. Each module needs its framework; nothing else imports them."""
