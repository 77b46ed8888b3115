from django.apps import AppConfig


class EstimationConfig(AppConfig):
    name = "portal.planning.estimation"
    label = "estimation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.cluster.followers import follow
        from portal.planning.estimation.links import LinksOfNode

        follow(LinksOfNode())
