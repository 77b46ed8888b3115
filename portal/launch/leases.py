"""`python -m portal.launch.leases HOURS`: before a planned stop, extend the leases of all running jobs by HOURS."""

import sys

import django


def main(hours: float) -> int:
    django.setup()
    from portal.work.jobs.services.reconciling import leases_maintain

    leases_maintain(hours=hours)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
