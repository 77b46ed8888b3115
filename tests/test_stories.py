"""Which test holds which story: a newcomer, a tenant and a script act from beginning to end, in a browser or a shell.

| story | what must end well |
|---|---|
| 1 | sign in to a demo, see jobs run and one wait, understand why |
| 2 | README's blocks and the guides' first ones, typed as they stand |
| 3 | files dropped on the form, log and curve watched, the checkpoint downloaded |
| 4 | the same from the command line; the exit code is the job's |
| 5 | after half an hour the demo is still busy |
| 6 | from a template, one value changed, relaunched |
| 7 | an elastic job grows, shrinks and resumes without losing its curve |
| 8 | why it waits, what must happen first, an offer accepted in one click |
| 9 | an array of 200 with three failures: shown first, retried |
| 10 | a chain breaks, and what follows says so |
| 11 | a batch script of an old cluster, imported |
| 12 | a notebook's port reached, a terminal beside it, and the idle time-out |
| 13 | a secret shows nowhere |
| 14 | told by mail and webhook; warned before the time limit, extended |
| 15, 16 | a manager's members; who used how much |
| 17 | a quota nearly reached is seen |
| 27 | 500 jobs through a flaky connection |
| 28 | a log followed through cut connections |
| 29 | a token that reads does not write; a revoked one stops |
"""

import ast

from portal.foundation.layout import SOURCE

HELD_BY = {
    1: ["system/test_readme.py::test_a_newcomer_sees_jobs_run_and_one_wait_and_reads_why"],
    2: [
        "system/test_readme.py::test_readme_s_blocks_and_the_guides_first_ones_work_as_typed",
        "system/test_readme.py::test_a_minimal_debian_has_what_the_blocks_call",
    ],
    3: ["system/test_submit_page.py::test_story_3_dropped_files_train_are_watched_and_the_checkpoint_is_downloaded"],
    4: ["system/test_scripts_life.py::test_a_submitted_file_is_waited_for_and_ends_with_its_exit_code"],
    5: [
        "portal/launch/test_arrivals.py::test_on_average_four_fifths_to_nine_tenths_of_the_gpus_are_asked_for",
        "portal/launch/test_arrivals.py::test_jobs_come_until_the_demand_reaches_the_target_and_again_when_it_falls",
    ],
    6: ["system/test_submit_page.py::test_from_a_template_with_one_value_changed_and_relaunched"],
    7: ["system/test_replans.py::test_an_elastic_training_grows_and_shrinks_with_the_losses_of_an_unbroken_run"],
    8: ["system/test_live_pages.py::test_an_offer_starts_a_waiting_job_in_one_press"],
    9: ["system/test_browser.py::test_an_array_of_200_tells_its_three_failures_first_and_retries_them"],
    10: ["system/test_browser.py::test_a_chain_says_where_it_broke_and_what_does_not_follow"],
    11: [
        "client/test_scripts.py",
        "system/test_submit_page.py::test_story_11_a_script_of_an_old_cluster_says_what_became_of_each_line_and_runs",
    ],
    12: [
        "system/test_forward.py::test_what_a_job_serves_is_reached_with_many_connections",
        "system/test_terminal.py::test_in_a_browser",
        "system/test_idle.py::test_what_nobody_uses_ends_and_what_somebody_types_in_or_works_runs_on",
    ],
    13: ["system/test_secret_story.py::test_a_secret_shows_nowhere_and_a_job_without_it_says_so"],
    14: [
        "system/test_submit_page.py::test_story_14_a_line_and_the_end_are_told_and_the_limit_extended",
        "portal/work/notifications/test_delivery.py::test_a_mail_comes_when_a_job_ends_and_only_once",
        "portal/work/notifications/test_delivery.py::test_a_near_time_limit_is_told_once_and_again_after_it_was_extended",
    ],
    15: ["system/test_scripts_life.py::test_a_manager_invites_makes_a_viewer_removes_and_asks_who_used_what"],
    16: ["system/test_scripts_life.py::test_a_manager_invites_makes_a_viewer_removes_and_asks_who_used_what"],
    17: [
        "portal/pages/dashboard/submit/test_quotas_near.py",
        "system/test_submit_page.py::test_story_17_a_quota_that_is_nearly_used_is_seen_before_it_hurts",
    ],
    27: ["system/test_scripts_life.py::test_jobs_with_keys_through_a_flaky_connection_are_as_many_jobs"],
    28: ["system/test_scripts_life.py::test_a_log_is_followed_through_cut_connections_and_a_portal_that_starts_again"],
    29: ["system/test_scripts_life.py::test_a_token_that_reads_does_not_write_and_a_revoked_one_stops_at_once"],
}


def test_the_tests_of_a_story_are_there(subtests):
    for story, nodes in HELD_BY.items():
        with subtests.test(story=story):
            for node in nodes:
                file, _, name = node.partition("::")
                tree = ast.parse((SOURCE / "tests" / file).read_text())
                tests = {
                    each.name
                    for each in tree.body
                    if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
                }
                assert (name in tests) if name else tests, node
