"""Failures that people reported about tools of this kind, and the tests that show that this one survives each.

A scenario is (its number, what goes wrong, the tests that show the right outcome). Tests are named by file, ``jsonio`` for
tests/core/test_jsonio.py; ``defect NAME`` is one of the kill matrix, which tests/project/test_defects.py plants and a gate must refuse.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest
from defects.catalogue import DEFECTS
from places import TESTS

SCENARIOS: list[tuple[int, str, str]] = [
    # ptxas logs
    (1, "only the first kernel of a log is read", "static_ptxas_gate test_the_spilling_kernel_fails_wherever_it_stands"),
    (
        3,
        "spills behind another prefix",
        "static_ptxas_gate test_spills_are_found_in_every_wording_and_counted_once, static_ptxas_log "
        "test_a_block_without_spill_figures_is_a_problem_not_zero",
    ),
    (5, "the module's own line is taken for a kernel's", "static_ptxas_log test_every_field_of_every_recorded_log"),
    (
        7,
        "instances of a template are merged",
        "static_ptxas_gate test_every_instance_of_a_template_is_judged test_readable_names_are_shown",
    ),
    (
        9,
        "ninja hides the compiler's output",
        "static_build test_products_and_logs_of_every_architecture test_an_unchanged_build_compiles_nothing_and_is_quick, "
        "static_ptxas_gate test_two_architectures_of_one_log_are_kept_apart",
    ),
    (
        11,
        "registers creep, a kernel vanishes",
        "static_ptxas_gate test_a_change_of_one_register_is_in_the_report test_a_vanished_kernel_fails test_a_new_kernel_is_listed",
    ),
    (
        13,
        "relocatable code is judged before it is linked",
        "static_ptxas_gate test_the_linker_s_figures_are_judged test_relocatable_code_without_the_linker_s_line_is_inconclusive, "
        "static_planted test_relocatable_code_is_judged_as_linked",
    ),
    (15, "spills into shared memory", "static_ptxas_gate test_spills_into_shared_memory_are_judged_and_pointed_at"),
    (17, "spills are counted twice", "static_ptxas_gate test_spills_are_found_in_every_wording_and_counted_once"),
    (
        19,
        "a launch bound is dropped with a warning",
        "static_ptxas_gate test_warnings_are_shown_at_their_kernel, static_ptxas_log test_warnings_belong_to_the_kernel_they_name",
    ),
    (
        21,
        "names that depend on the folder, or look like figures",
        "static_ptxas_gate test_one_source_in_two_folders_matches, static_ptxas_log test_keys_do_not_depend_on_the_folder "
        "test_names_as_people_write_them",
    ),
    (
        23,
        "the kilobyte that the system keeps",
        "static_ptxas_gate test_the_kilobyte_of_sm_90_counts_in_the_occupancy_and_not_against_the_launch, static_chips "
        "test_the_system_s_kilobyte_counts",
    ),
    (
        25,
        "line ends, colours, a log that is cut",
        "static_ptxas_log test_line_ends_colours_and_noise_change_nothing test_cut_inside_the_second_kernel "
        "test_a_log_cut_anywhere_gives_no_wrong_figure, static_ptxas_gate test_a_cut_log_fails_and_says_where",
    ),
    # building
    (
        27,
        "a compiler is killed for lack of processes or memory",
        "machine test_a_killed_compiler_is_the_machine_s_fault, static_build test_jobs_from_the_environment_or_the_cores "
        "test_a_killed_build_leaves_no_lock",
    ),
    (
        29,
        "a changed toggle does not rebuild",
        "static_build test_toggles_flags_and_compiler_have_folders_of_their_own, task test_an_override_changes_the_digest, pipeline "
        "test_two_overridden_runs_at_once_never_mix",
    ),
    (
        31,
        "the old library is measured after a failed build",
        "static_build test_a_failed_compile_leaves_nothing_of_the_old_build, pipeline test_code_that_does_not_compile",
    ),
    (
        33,
        "no CUDA compiler",
        "pipeline test_without_a_cuda_compiler_no_gate_runs_and_each_says_how_to_get_one, static_build "
        "test_without_nvcc_all_products_are_missing_and_the_remedy_is_told, "
        "static_toolchain test_doctor_lists_what_is_missing_and_what_it_costs",
    ),
    (
        35,
        "nvcc refuses the host compiler",
        "static_build test_a_refused_host_compiler_is_named_with_the_override, static_toolchain "
        "test_an_old_or_foreign_host_compiler_is_refused",
    ),
    (
        37,
        "the library holds no code for the device",
        "static_build test_the_device_s_own_architecture_is_added_once, correctness_on_device "
        "test_a_library_of_another_architecture_is_a_launch_error",
    ),
    (
        39,
        "build or results folder can't be written",
        "static_build test_a_build_folder_that_can_t_be_written_is_one_error test_check_build_root_knows_a_read_only_folder, pipeline "
        "test_results_that_cannot_be_written test_two_overridden_runs_at_once_never_mix",
    ),
    # correctness
    (
        41,
        "wrong arithmetic within loose limits",
        "sdpa_inputs test_a_defect_that_ordinary_cases_let_through, reported_failures "
        "test_what_the_input_format_s_limits_let_through_fails, defect tail_not_masked, defect last_dimensions_skipped",
    ),
    (
        43,
        "inputs for which any constant is right",
        "correctness_gate test_weak_or_broken_problems, correctness_thorough test_a_null_answer_must_fail_where_the_kernel_passes",
    ),
    (
        45,
        "NaN passes a comparison",
        "correctness_gate test_planted_defect_fails, correctness_records test_figures_of_non_finite_and_infinite_elements "
        "test_a_figure_that_is_absent_or_no_number_fails, jsonio test_refused, defect nan_output",
    ),
    (
        47,
        "a kernel is given the answer's memory",
        "correctness_gate test_unwritten_elements_are_counted_exactly, defect never_written, defect cached_by_address",
    ),
    (
        49,
        "a cache by a few samples of the inputs",
        "defect cached_by_samples, performance_faults test_a_stored_answer_is_right_until_the_inputs_change",
    ),
    (
        51,
        "right at first, wrong after many calls",
        "performance_runner test_wrong_only_after_many_launches_is_seen_only_afterwards, defect keeps_state",
    ),
    (
        53,
        "seeds that repeat, are ignored, or are known",
        "task test_a_fault_names_file_line_and_key, correctness_gate test_weak_or_broken_problems "
        "test_kernel_that_knows_the_seeds_meets_a_fresh_one",
    ),
    (
        55,
        "inputs that are not contiguous",
        "sdpa_operator test_a_view_is_refused_by_name_at_any_length, correctness_gate test_not_contiguous_input_is_named",
    ),
    (57, "lengths that are no multiple of the tile", "sdpa_kernel test_any_length, defect last_tile_unwritten, defect tail_not_masked"),
    (59, "a causal mask aligned at the other corner", "causal_problem test_the_mask"),
    (61, "values behind the mask leak", "causal_problem test_the_mask"),
    (63, "a finite start of the maximum", "sdpa_kernel test_scores_of_minus_four_million, defect finite_start_of_max"),
    (
        65,
        "the state is not rescaled",
        "sdpa_kernel test_maximum_that_comes_last_outweighs_all_tiles_before, defect no_rescale, defect l_not_rescaled",
    ),
    (
        67,
        "limits that let many elements be wrong",
        "correctness_records test_loose_limits_are_said_to_be_loose, correctness_gate test_worse_than_the_baseline",
    ),
    (
        69,
        "one illegal access spoils all later cases",
        "correctness_process test_a_crash_costs_one_case, correctness_on_device test_a_broken_context_costs_one_case_at_a_time",
    ),
    (
        71,
        "exit code 0 counts as correct",
        "correctness_process test_exit_0_with_a_printed_pass_is_no_result test_five_of_six_is_not_six, defect fake_verdict",
    ),
    (
        73,
        "the reference runs out of memory",
        "correctness_gate test_lack_of_memory_says_how_much_is_needed, sdpa_problem test_reference_in_slices_equals_the_whole",
    ),
    # attention kernels
    (
        75,
        "48 KiB of shared memory without opting in",
        "static_ptxas_gate test_a_launch_above_48_kib_must_opt_in, static_planted test_49153_bytes_without_opting_in, "
        "cpu_conformance test_the_cpu_device_gives_what_cuda_promises_and_the_device_gave, correctness_on_device test_correctness",
    ),
    (
        77,
        "a refused launch goes unseen",
        "static_ptxas_gate test_launches_that_no_chip_takes, correctness_cuda_source test_correctness, "
        "performance_device test_a_faulty_candidate_fails, defect swallowed_error",
    ),
    (
        79,
        "a barrier is missing",
        "correctness_cuda_source test_sanitizer, defect no_barrier_after_load, "
        "defect no_barrier_before_reuse, defect no_barrier_after_scores",
    ),
    (
        81,
        "warnings that depend on the tool's version",
        "sanitizer_device test_warnings_are_shown_and_do_not_fail test_all_findings_of_a_log_are_read",
    ),
    (
        83,
        "the kernel runs on another stream",
        "sdpa_operator test_runs_on_the_current_stream, performance_device "
        "test_work_that_is_not_done_when_the_launch_is_over_is_no_pass, defect default_stream",
    ),
    # timing
    (
        85,
        "launch overhead hides the kernel",
        "performance_device test_a_known_ratio, performance_statistics test_launches_make_a_sample_long_enough_or_reach_their_cap",
    ),
    (
        87,
        "a kernel keeps its inputs in L2",
        "reported_failures test_lines_that_a_kernel_keeps_in_l2_are_let_go_before_every_block_of_samples",
    ),
    (
        89,
        "clocks differ, or nothing is kept",
        "performance_judge test_sides_at_different_clocks test_no_samples_whatever_make_a_pass_or_a_nan, performance_sampling "
        "test_constant_throttling_is_given_up",
    ),
    (
        91,
        "one stall in the mean",
        "performance_judge test_one_stall_decides_nothing_and_is_kept, performance_statistics test_one_stall_is_shown_not_deleted",
    ),
    (
        93,
        "one repetition",
        "performance_sampling test_slow_kernels_have_fewer_samples_a_block, performance_runner test_iterations_are_kept_within_bounds, "
        "performance_statistics test_one_sample_has_no_spread_and_none_no_figures",
    ),
    (
        95,
        "times of zero or less",
        "performance_sampling test_bad_samples_are_refused_and_counted test_a_side_without_one_good_sample_ends_it",
    ),
    (
        97,
        "the timer scatters more than the kernel takes",
        "performance_error_rates test_a_coarse_timer_is_refused_not_guessed, performance_device "
        "test_the_same_kernel_twice_beside_a_loaded_card_is_no_gain",
    ),
    (
        99,
        "sides timed on other inputs",
        "compare_sides test_other_inputs_from_the_same_seed_are_refused, performance_faults "
        "test_a_stored_answer_is_right_until_the_inputs_change",
    ),
    (
        101,
        "timed on another device than it ran on",
        "verify test_an_edit_is_found, reported_failures test_the_second_card_is_the_one_that_is_timed",
    ),
    (
        103,
        "a kernel that fails is fast",
        "performance_judge test_what_did_not_run_is_not_run_and_claims_nothing, pipeline test_a_wrong_kernel_is_rejected, "
        "performance_runner test_a_faulty_candidate_is_no_pass",
    ),
    # evidence, compare, decide
    (
        105,
        "runs of different cards",
        "compare_sides test_another_kind_of_card_is_shown_and_decides_nothing "
        "test_one_card_under_two_indices_is_the_same_and_another_of_its_kind_is_noted",
    ),
    (
        107,
        "rows that only one side has",
        "compare_sides test_a_shape_that_the_candidate_lacks_holds_and_one_that_it_has_more_is_named test_nothing_in_common_is_no_pass",
    ),
    (
        109,
        "a baseline of zero, NaN or infinity",
        "compare_sides test_a_p50_that_is_no_time_is_an_error_of_file_and_key, performance_judge "
        "test_a_p50_that_is_no_time_is_an_error_of_the_file_and_key",
    ),
    (111, "figures rounded before the ratio", "performance_judge test_the_bar"),
    (
        113,
        "no baseline",
        "performance_judge test_a_first_rung_is_measured_and_not_applicable, pipeline test_the_run_directory_holds_what_the_design_says",
    ),
    (115, "the exit code says nothing", "compare_sides test_the_exit_code_is_that_of_the_decision_and_a_pipe_changes_nothing"),
    (117, "NaN in JSON", "jsonio test_nan_is_never_written test_refused test_a_number_that_is_none_is_told_with_its_place"),
    (119, "a key twice in JSON", "jsonio test_refused"),
    (
        121,
        "time zones and ties",
        "history test_runs_are_ordered_by_instant_whatever_their_clock_showed, evidence test_a_run_of_the_same_second_gets_a_number, "
        "verify test_an_edit_is_found",
    ),
    (123, "names that tear a table", "compare_sides test_no_text_of_evidence_is_markdown, report test_nothing_in_evidence_becomes_markup"),
    # Nsight Compute and compute-sanitizer
    (125, "no permission for counters", "ncu_run test_what_yields_no_counters_is_no_pass"),
    (127, "the wrong launch is profiled", "ncu_run test_the_wanted_launch_is_selected_and_never_silently_the_first"),
    (129, "the row of units", "ncu_run test_the_units_row_is_no_kernel_and_scales"),
    (131, "separators of thousands", "ncu_run test_numbers_as_ncu_writes_them test_numbers_of_another_locale_are_refused"),
    (
        133,
        "a metric that the chip does not have",
        "ncu_run test_a_metric_that_ncu_does_not_know_leaves_the_others_judged test_no_tool_and_unknown_chip",
    ),
    (135, "another tool has the counters", "ncu_run test_what_yields_no_counters_is_no_pass, process test_the_time_limit_holds"),
    (
        137,
        "a profiled run is timed",
        "ncu_run test_arguments_leave_the_clocks_alone_and_name_the_kernel_exactly, reported_failures "
        "test_speed_is_measured_before_anything_is_profiled",
    ),
    (139, "a checker that checked nothing", "sanitizer_device test_a_tool_that_checked_nothing_or_found_something"),
    (141, "an allocator setting makes memcheck cry wolf", "sanitizer_device test_four_clean_tools_pass"),
    # command line, task files, environment
    (143, "a key twice in YAML", "task test_broken_yaml test_a_limit_given_twice_deep_down"),
    (
        145,
        "a toggle's variable is no number",
        "task test_a_toggle_that_is_no_whole_number test_toggle_overrides, pipeline test_a_toggle_that_is_no_number_breaks_only_the_run",
    ),
    (147, "help has side effects", "layers test_no_torch_in_what_must_start_fast, judge_command test_it_starts_fast"),
    (
        149,
        "a broken task.yaml",
        "task test_broken_yaml test_a_fault_names_file_line_and_key test_all_faults_of_a_file_are_named_at_once test_baselines",
    ),
    (151, "results can't be written", "pipeline test_results_that_cannot_be_written, evidence test_a_read_only_place_is_one_error"),
    (
        153,
        "two runs in one folder",
        "evidence test_a_run_of_the_same_second_gets_a_number test_a_run_is_never_written_into_another, pipeline "
        "test_two_overridden_runs_at_once_never_mix",
    ),
]


def shown_by(text: str) -> list[tuple[str, str]]:
    """(file, test) or ("defect", name) of each name in a scenario's last column."""
    return [(group.split()[0], name) for group in text.split(", ") for name in group.split()[1:]]


@cache
def defined_in(file: str) -> set[str]:
    """The test functions that a file defines."""
    tree = ast.parse(next(TESTS.rglob(f"test_{file}.py")).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_scenario_is_in_the_list_once() -> None:  # their numbers are odd
    assert [number for number, _, _ in SCENARIOS] == list(range(1, 154, 2))


@pytest.mark.parametrize(("number", "title", "tests"), SCENARIOS, ids=[title for _, title, _ in SCENARIOS])
def test_a_scenario_is_shown_by_tests_that_exist(number: int, title: str, tests: str) -> None:
    shown = shown_by(tests)
    assert shown
    for file, name in shown:
        assert name in (DEFECTS if file == "defect" else defined_in(file)), f"{file} {name}"
