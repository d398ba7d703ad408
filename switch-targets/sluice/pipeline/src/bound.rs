//! An action call in the form in which packets run it.

use crate::bits::{self, Bits};
use crate::entry::ActionCall;
use crate::error::TableError;
use crate::expr::Args;
use crate::ir::{Ir, Next, ParamHome};
use crate::spec::{ActionId, ActionSpec};

/// An action ready to run, and where control goes after it.
#[derive(Debug)]
pub struct Bound {
    pub action: usize,
    pub args: Args,
    pub next: Next,
}

/// The call that was bound.
pub fn call_of(ir: &Ir, action: usize, args: &Args) -> ActionCall {
    let Args { narrow, wide } = args;
    let args = ir.actions[action].params.iter();
    let args = args.map(|param| match param.home {
        ParamHome::Narrow(at) => Bits::from_u128(param.width, narrow[at]),
        ParamHome::Wide { offset, len } => Bits::cut(param.width, &wide[offset..offset + len]),
    });
    ActionCall {
        action: ActionId(action),
        args: args.collect(),
    }
}

/// The arguments of a call in the form that its action reads.
pub fn bind_args(actions: &[ActionSpec], ir: &Ir, call: &ActionCall) -> Result<Args, TableError> {
    let (Some(spec), Some(action)) = (actions.get(call.action.0), ir.actions.get(call.action.0))
    else {
        return Err(TableError::NoSuchObject);
    };
    let bad = |cause| TableError::BadArguments {
        action: spec.name.clone(),
        cause,
    };
    if call.args.len() != action.params.len() {
        return Err(bad("their number is wrong"));
    }
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    for (param, value) in action.params.iter().zip(&call.args) {
        if param.width != value.width() {
            return Err(bad("one has another width"));
        }
        match param.home {
            ParamHome::Narrow(_) => narrow.push(bits::read_low(value.bytes())),
            ParamHome::Wide { .. } => wide.extend_from_slice(value.bytes()),
        }
    }
    Ok(Args {
        narrow: narrow.into(),
        wide: wide.into(),
    })
}
