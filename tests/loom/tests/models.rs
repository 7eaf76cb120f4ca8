//! Each model by name.

use multilock_loom::hold::passing;
use multilock_loom::{calls, inbox};

#[test]
fn no_call_is_lost() {
    calls::no_call_is_lost();
}

#[test]
fn order_is_kept() {
    calls::order_is_kept();
}

#[test]
fn a_call_while_it_closes_is_answered() {
    calls::a_call_while_it_closes_is_answered();
}

#[test]
fn a_call_while_the_driver_is_dropped_is_answered() {
    calls::a_call_while_the_driver_is_dropped_is_answered();
}

#[test]
fn no_answer_is_lost() {
    inbox::no_answer_is_lost();
}

#[test]
fn a_connection_that_ends_wakes_the_asker() {
    inbox::a_connection_that_ends_wakes_the_asker();
}

#[test]
fn giving_up_and_an_answer_are_one_answer() {
    inbox::giving_up_and_an_answer_are_one_answer();
}

#[test]
fn an_answer_to_nobody_is_dropped() {
    inbox::an_answer_to_nobody_is_dropped();
}

#[test]
fn a_turn_that_opens_the_line_is_not_lost() {
    passing::a_turn_that_opens_the_line_is_not_lost();
}

#[test]
fn what_is_passed_on_is_never_lost() {
    passing::what_is_passed_on_is_never_lost();
}

#[test]
fn what_is_lost_is_released_once() {
    passing::what_is_lost_is_released_once();
}

#[test]
fn one_of_two_guards_is_the_last() {
    passing::one_of_two_guards_is_the_last();
}

#[test]
fn what_is_taken_back_is_not_taken_too() {
    passing::what_is_taken_back_is_not_taken_too();
}

#[test]
fn what_is_recalled_is_released() {
    passing::what_is_recalled_is_released();
}

#[test]
fn a_recall_at_the_end_of_a_hold_is_heeded() {
    passing::a_recall_at_the_end_of_a_hold_is_heeded();
}

#[test]
fn who_joins_does_not_wait_for_what_stays() {
    passing::who_joins_does_not_wait_for_what_stays();
}
