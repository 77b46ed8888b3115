"""Django's settings, from environment variables only; `portal.foundation.environment` documents each of them."""

from __future__ import annotations

from pathlib import Path

import dj_database_url

from portal.foundation.environment import env
from portal.foundation.job_names import domain
from portal.foundation.redis_urls import channels_host, kombu_url
from portal.foundation.secret_key import key_read

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env("BERTH_DATA_DIR") or BASE_DIR / "var").absolute()
DEMO = env("BERTH_DEMO")
DEBUG = env("BERTH_DEBUG")
BASE_URL = env("BERTH_BASE_URL")
SECRET_KEY, SECRET_KEY_PROBLEM = key_read(Path(env("BERTH_SECRET_KEY_FILE") or DATA_DIR / "secret-key"))
ALLOWED_HOSTS = env("BERTH_ALLOWED_HOSTS").split(",")
JOBS_DOMAIN = domain(env("BERTH_JOBS_NAMES"), base_url=BASE_URL, allowed=ALLOWED_HOSTS)
CSRF_TRUSTED_ORIGINS = [BASE_URL] if BASE_URL.startswith("http") else []
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
AUTH_USER_MODEL = "tenants.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TIME_ZONE = "UTC"
USE_TZ = True
LANGUAGE_CODE = "en-gb"
FORMAT_MODULE_PATH = "portal.foundation.formats"
APPEND_SLASH = True

INSTALLED_APPS = [
    "portal.foundation.console.apps.ConsoleConfig",  # portal.urls finds the console's pages: only who serves them loads them
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "django_htmx",
    "axes",
    "portal.foundation.events",
    "portal.people.tenants",
    "portal.cluster",
    "portal.engines",
    "portal.work.uploads",
    "portal.work.secrets",
    "portal.work.jobs",
    "portal.people.accounts",
    "portal.work.artefacts",
    "portal.work.sweeps",
    "portal.work.notifications",
    "portal.planning.estimation",
    "portal.planning.rounds",
    "portal.planning.offers",
    "portal.planning.sharing",
    "portal.planning.templating",
    "portal.pages.dashboard",
    "portal.pages.laboratory",
    "portal.launch",
    "portal.operate.backups",
]

MIDDLEWARE = [
    "portal.foundation.api.errors.ApiEnvelope",
    "portal.foundation.middleware.ContentSecurityPolicy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "portal.foundation.middleware.Compression",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.people.accounts.second.SecondFactorRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.foundation.middleware.BerthErrors",
    "axes.middleware.AxesMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.pages.registry.frame",
            ],
        },
    },
]

DATABASES = {
    "default": dj_database_url.parse(
        env("DATABASE_URL") or f"sqlite:///{DATA_DIR / 'berth.sqlite3'}", conn_max_age=60, conn_health_checks=True
    )
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # Deferred transactions give "database is locked" under ten writers; immediate ones never did in 190 000.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-32000;",
    }
elif DATABASES["default"]["ENGINE"].endswith("postgresql"):
    # A server that is gone without a word (its machine lost power, a network in between drops all) is given up after half a
    # minute; the system's own limit is a quarter of an hour. DATABASE_URL comes first.
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 10,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    } | DATABASES["default"].get("OPTIONS", {})

REDIS_URL = env("REDIS_URL") or "redis://127.0.0.1:6379/0"
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [channels_host(REDIS_URL)]},
    }
}
CELERY_BROKER_URL = kombu_url(REDIS_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_DEFAULT_QUEUE = "berth"
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_DB_REUSE_MAX = 1_000  # tasks with the same connection, which CONN_MAX_AGE ends sooner (`database_kept`)
CELERY_BEAT_SCHEDULER = "portal.foundation.beat:LivingScheduler"
CELERY_TASK_TIME_LIMIT = 1800  # a task that hangs is ended with its pool process; none of ours needs minutes

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = LOGOUT_REDIRECT_URL = "login"
LOGIN_REDIRECT_URL = "overview"
AXES_FAILURE_LIMIT = env("BERTH_SIGN_IN_FAILURES")
AXES_HANDLER = "portal.people.tenants.sign_in.SignInHandler"
BERTH_SIGN_IN_NAME_FAILURES = env("BERTH_SIGN_IN_NAME_FAILURES")
AXES_COOLOFF_TIME = env("BERTH_SIGN_IN_LOCK_MINUTES") / 60
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "portal.pages.dashboard.shell.account.sign_in_locked"
CSRF_FAILURE_VIEW = "portal.pages.dashboard.shell.error_views.csrf_failed"
AXES_VERBOSE = False

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BASE_URL.startswith("https://")
# Jobs' pages may share the portal's site, and a page may set cookies for its whole site: not with these names.
HOST_ONLY = "__Host-" if SESSION_COOKIE_SECURE else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{HOST_ONLY}sessionid", f"{HOST_ONLY}csrftoken"
SECURE_HSTS_SECONDS = env("BERTH_HSTS_S") if SESSION_COOKIE_SECURE else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "portal.foundation.middleware.StaticFiles"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.people.tenants.authentication.BearerToken",
        "portal.people.tenants.authentication.BrowserSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["portal.people.tenants.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.foundation.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.foundation.api.errors.exception_handler",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "VERSION": "1",
    "DESCRIPTION": "Submit and follow jobs on a GPU cluster that several tenants share.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SCHEMA_PATH_PREFIX": "/api/v1|/api(?=/agent)",
    "SORT_OPERATIONS": False,
    "GET_LIB_DOC_EXCLUDES": "portal.foundation.api.schema.bases_untold",
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {
        "JobState": "portal.work.jobs.states.JobState",
        "AttemptState": "portal.work.jobs.states.AttemptState",
        "StopReason": "portal.work.jobs.states.StopReason",
        "EngineForm": "portal.engines.models.Engine.Form",
        "EngineState": "portal.engines.models.STANDINGS",
        "LogStream": "portal.nodes.api_logs.STREAMS",
        "SimulationState": "portal.pages.laboratory.models.Simulation.State",
        "SharedWith": "portal.pages.laboratory.models.SharedWith",
        "PlanningStatus": "portal.planning.rounds.models.Planning.Status",
        "MemberRole": "portal.people.tenants.models.Membership.Role",
    },
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env("BERTH_LOG_LEVEL")},
    "loggers": {"httpx2": {"level": "WARNING"}},
}
