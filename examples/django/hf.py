"""The application: `DJANGO_SETTINGS_MODULE=examples.django.settings holdfast worker examples.django.hf:hf`."""

import os

from holdfast.contrib.django import DjangoHoldfast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django.settings")
hf = DjangoHoldfast(imports=["examples.django.shop.tasks"])
