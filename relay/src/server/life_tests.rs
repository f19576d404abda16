//! Every cell of the table.
//!
//! Runs in: any (pure data).

use super::*;

const STATES: [State; 10] = [
    State::Absent,
    State::Starting,
    State::Abandoned,
    State::Initializing,
    State::Ready,
    State::Draining,
    State::Pausing,
    State::Broken,
    State::Ending,
    State::Ended,
];
const EVENTS: [Event; 10] = [
    Event::Need,
    Event::Spawned,
    Event::Unspawned,
    Event::Greeted,
    Event::Rejected,
    Event::Lost,
    Event::Gone,
    Event::Limit,
    Event::Resume,
    Event::End,
];
const CALM: Facts = Facts { waiting: false, allowed: true, early: false, again: false };

/// The cells that do something, with a calm server; every other cell keeps the state and does nothing.
fn busy_cells() -> Vec<(State, Event, State, Vec<Action>)> {
    use Action::{FailSent, FailWaiting, Finish, Greet, Kill, Open, Spawn, Wind};
    use State::{
        Abandoned, Absent, Broken, Draining, Ended, Ending, Initializing, Pausing, Ready, Starting,
    };
    let ended = FailWaiting(Cause::Ended);
    let late = FailWaiting(Cause::Limit);
    vec![
        (Absent, Event::Need, Starting, vec![Spawn]),
        (Absent, Event::End, Ended, vec![ended, Finish]),
        (Broken, Event::Need, Starting, vec![Spawn]),
        (Broken, Event::End, Ended, vec![ended, Finish]),
        (Starting, Event::Spawned, Initializing, vec![Greet]),
        (Starting, Event::Unspawned, Absent, vec![FailWaiting(Cause::Unspawned)]),
        (Starting, Event::Limit, Abandoned, vec![late]),
        (Starting, Event::End, Ending, vec![ended]),
        (Abandoned, Event::Spawned, Draining, vec![Kill]),
        (Abandoned, Event::Unspawned, Absent, vec![]),
        (Abandoned, Event::Limit, Abandoned, vec![late]),
        (Abandoned, Event::End, Ending, vec![ended]),
        (Initializing, Event::Greeted, Ready, vec![Open]),
        (Initializing, Event::Rejected, Draining, vec![FailWaiting(Cause::Rejected), Kill]),
        (Initializing, Event::Lost, Draining, vec![Kill]),
        (Initializing, Event::Limit, Draining, vec![late, Kill]),
        (Initializing, Event::End, Ending, vec![ended, Wind]),
        (Ready, Event::Lost, Draining, vec![Kill]),
        (Ready, Event::End, Ending, vec![ended, Wind]),
        (Draining, Event::Gone, Absent, vec![FailSent]),
        (Draining, Event::Limit, Draining, vec![late]),
        (Draining, Event::End, Ending, vec![ended]),
        (Pausing, Event::Resume, Absent, vec![]),
        (Pausing, Event::Limit, Absent, vec![FailWaiting(Cause::Died)]),
        (Pausing, Event::End, Ended, vec![ended, Finish]),
        (Ending, Event::Spawned, Ending, vec![Wind]),
        (Ending, Event::Unspawned, Ended, vec![FailSent, ended, Finish]),
        (Ending, Event::Gone, Ended, vec![FailSent, ended, Finish]),
        (Ending, Event::Need, Ending, vec![ended]),
        (Ended, Event::Need, Ended, vec![ended]),
    ]
}

#[test]
fn each_cell_of_the_table_is_as_written() {
    let busy = busy_cells();
    for state in STATES {
        for event in EVENTS {
            let expected = busy
                .iter()
                .find(|cell| (cell.0, cell.1) == (state, event))
                .map_or((state, vec![]), |cell| (cell.2, cell.3.clone()));
            let (next, actions) = step(state, event, CALM);
            assert_eq!((next, actions.to_vec()), expected, "{state:?} {event:?}");
        }
    }
}

#[test]
fn a_start_is_refused_while_the_breaker_is_open() {
    let open = Facts { allowed: false, waiting: true, ..CALM };
    let refused = (State::Broken, &[Action::FailWaiting(Cause::Loop)][..]);
    assert_eq!(step(State::Absent, Event::Need, open), refused);
    assert_eq!(step(State::Broken, Event::Need, open), refused);
    assert_eq!(step(State::Pausing, Event::Resume, open), refused);
    assert_eq!(step(State::Abandoned, Event::Unspawned, open), refused);
    let both = [Action::FailSent, Action::FailWaiting(Cause::Loop)];
    assert_eq!(step(State::Draining, Event::Gone, open), (State::Broken, &both[..]));
}

#[test]
fn those_who_wait_get_a_new_child_once_the_old_one_is_gone() {
    let waiting = Facts { waiting: true, ..CALM };
    let again = (State::Starting, &[Action::FailSent, Action::Spawn][..]);
    assert_eq!(step(State::Draining, Event::Gone, waiting), again);
    let start = (State::Starting, &[Action::Spawn][..]);
    assert_eq!(step(State::Abandoned, Event::Unspawned, waiting), start);
    assert_eq!(step(State::Pausing, Event::Resume, waiting), start);
}

#[test]
fn a_child_that_ended_in_start_up_is_tried_again_after_a_pause_and_not_for_ever() {
    let early = Facts { waiting: true, early: true, again: true, ..CALM };
    assert_eq!(step(State::Draining, Event::Gone, early), (State::Pausing, &[Action::Pause][..]));
    let tired = Facts { again: false, ..early };
    let died = (State::Absent, &[Action::FailWaiting(Cause::Died)][..]);
    assert_eq!(step(State::Draining, Event::Gone, tired), died);
}

#[test]
fn only_states_without_a_process_start_one() {
    for state in STATES {
        for event in EVENTS {
            for bits in 0..16 {
                let facts = Facts {
                    waiting: bits & 1 > 0,
                    allowed: bits & 2 > 0,
                    early: bits & 4 > 0,
                    again: bits & 8 > 0,
                };
                let (next, actions) = step(state, event, facts);
                if actions.contains(&Action::Spawn) {
                    let free = matches!(state, State::Absent | State::Broken | State::Pausing);
                    let freed = matches!(event, Event::Gone | Event::Unspawned);
                    assert!(facts.allowed && (free || freed), "{state:?} {event:?}");
                    assert_eq!(next, State::Starting);
                }
            }
        }
    }
}
