"""The portal's paths and one that nobody listed."""

from django.http import HttpResponse
from django.urls import path

from portal.urls import urlpatterns as listed

urlpatterns = [*listed, path("forgotten", lambda request: HttpResponse(), name="forgotten")]
