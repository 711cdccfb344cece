//! What the gauge `azure_scheduled_events_receiver_up` is told of one receiver.

use tokio::sync::watch;

use crate::{base::text::label_value, core::snapshot::ReceiverStates};

#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    states: watch::Sender<ReceiverStates>,
    /// Its URL without secrets: the label.
    name: String,
}

impl Receiver {
    pub(crate) fn new(states: &watch::Sender<ReceiverStates>, name: &str) -> Self {
        Self {
            states: states.clone(),
            name: label_value(name).into_owned(),
        }
    }

    /// It accepted a request, or did not.
    pub(crate) fn set(&self, is_up: bool) {
        self.states
            .send_if_modified(|states| states.insert(self.name.clone(), is_up) != Some(is_up));
    }
}
