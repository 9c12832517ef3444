//! What a route takes and gives, read off its handler's signature.
//!
//! INVARIANT: the OpenAPI document knows only what stands here, and a handler whose arguments or answer say
//! nothing of themselves does not compile as a route. So the document cannot fall behind the code.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::extract::{Calling, Decides, Guest, Id, Json, Params, Traced};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Pass;

/// One route, for the OpenAPI document.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<Shape>,
    pub(super) answers: Vec<GoodResponse>,
    /// Problems that deserve their own word.
    pub(super) fails: Vec<(u16, &'static str)>,
    /// Whether it needs no secret.
    pub(super) open: bool,
}

/// How a type looks in JSON.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// One good answer of a route. Bad ones are problems everywhere.
pub(super) struct GoodResponse {
    pub(super) status: u16,
    pub(super) summary: &'static str,
    pub(super) content: Content,
}

pub(super) enum Content {
    Json(Shape),
    Text(&'static str),
    /// Server-sent events: each the first type, or a note in the second.
    Events(Shape, Shape),
    Nothing,
}

pub(super) fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Operation {
    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        let (answers, fails) = (Vec::new(), Vec::new());
        Self { method, path, id, summary, query: None, body: None, answers, fails, open: false }
    }

    pub(super) fn answers(&mut self, status: u16, summary: &'static str, content: Content) {
        self.answers.push(GoodResponse { status, summary, content });
    }

    pub(super) fn fails(&mut self, status: u16, summary: &'static str) {
        self.fails.push((status, summary));
    }
}

/// What a handler takes out of a request.
#[diagnostic::on_unimplemented(message = "`{Self}` does not say what it takes out of a request")]
pub(super) trait Takes {
    fn describe(_: &mut Operation) {}
}

/// What a handler answers with.
#[diagnostic::on_unimplemented(message = "`{Self}` does not say how it looks as an answer")]
pub(super) trait Gives {
    fn describe(operation: &mut Operation);
}

/// A handler that says all of itself. `T` is what axum tells handlers of different arguments apart by.
pub(super) trait Signature<T> {
    fn describe(operation: &mut Operation);
}

impl Takes for State<Arc<ServerState>> {}
impl Takes for HeaderMap {}
impl Takes for Uri {}
impl Takes for Extension<Pass> {}
impl Takes for Guest {}
impl Takes for Calling {}
impl Takes for Decides {}
impl Takes for Traced {}
/// The path says where it stands.
impl<T> Takes for Id<T> {}

impl<T: JsonSchema> Takes for Params<T> {
    fn describe(operation: &mut Operation) {
        operation.query = Some(shape::<T>);
    }
}

impl<T: JsonSchema> Takes for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.body = Some(shape::<T>);
    }
}

impl<T: Gives> Gives for Result<T, Problem> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

impl<F, Fut> Signature<((),)> for F
where
    F: FnOnce() -> Fut,
    Fut: Future<Output: Gives>,
{
    fn describe(operation: &mut Operation) {
        Fut::Output::describe(operation);
    }
}

macro_rules! signatures {
    ($($($part:ident)*;)*) => {$(
        impl<F, Fut, M, $($part),*> Signature<(M, $($part,)*)> for F
        where
            F: FnOnce($($part),*) -> Fut,
            Fut: Future<Output: Gives>,
            $($part: Takes,)*
        {
            fn describe(operation: &mut Operation) {
                $($part::describe(operation);)*
                Fut::Output::describe(operation);
            }
        }
    )*};
}

signatures! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
}
