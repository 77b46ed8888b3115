"""The console in the place of Django's admin site."""

from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(SimpleAdminConfig):
    default_site = "portal.foundation.console.site.Console"
