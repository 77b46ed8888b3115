"""The portal's settings, with the commands `bench` and `experiment` beside its own."""

from portal.settings import *  # noqa: F403
from portal.settings import INSTALLED_APPS as APPS_OF_PRODUCT

INSTALLED_APPS = [*APPS_OF_PRODUCT, "research"]
