#pragma once
// The handlers that the command table names. Each is called once, after the checks that the table asks for, and sees to
// it that the task is finished (see task.hpp), now or later.

namespace lockstep::iscsi_target {
struct Task;
}

namespace lockstep::iscsi_target::handlers {

// primary.cpp
void test_unit_ready(Task& task);
void request_sense(Task& task);
void read_defect_data(Task& task);
// medium.cpp
void start_stop_unit(Task& task);
void prevent_allow_medium_removal(Task& task);
// reservations.cpp
void reserve(Task& task);
void release(Task& task);
void persistent_reserve_out(Task& task);
// reservation_reports.cpp
void persistent_reserve_in(Task& task);
// inquiry.cpp
void inquiry(Task& task);
// mode.cpp
void mode_sense_6(Task& task);
void mode_sense_10(Task& task);
void mode_select_6(Task& task);
void mode_select_10(Task& task);
// reports.cpp
void report_luns(Task& task);
void report_identifying_information(Task& task);
void report_target_port_groups(Task& task);
void report_supported_operation_codes(Task& task);
void report_supported_task_management_functions(Task& task);
// capacity.cpp
void read_capacity_10(Task& task);
void read_capacity_16(Task& task);
void get_lba_status(Task& task);
// block_io.cpp
void read(Task& task);
void write(Task& task);
void write_and_verify(Task& task);
void verify(Task& task);
void prefetch(Task& task);
void synchronize_cache(Task& task);
// block_ranges.cpp
void compare_and_write(Task& task);
void or_write(Task& task);
void write_atomic(Task& task);
void write_same(Task& task);
void unmap(Task& task);
// buffers.cpp
void write_buffer_data(Task& task);
void write_buffer_echo(Task& task);
void read_buffer_data(Task& task);
void read_buffer_descriptor(Task& task);
void read_buffer_echo(Task& task);
void read_buffer_echo_descriptor(Task& task);
// sanitize.cpp
void sanitize(Task& task);
// extended_copy.cpp
void extended_copy(Task& task);
void receive_copy_status(Task& task);
void receive_copy_operating_parameters(Task& task);

}  // namespace lockstep::iscsi_target::handlers
