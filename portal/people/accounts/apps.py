from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.people.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.people.accounts.sessions import listen

        listen()
