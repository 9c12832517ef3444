//! Rust functions as handlers, and the schemas of their types.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::transform::RecursiveTransform;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::BoxFuture;
use crate::context::Context;
use crate::error::{ErrorCode, FieldError, ToolError};
use crate::preview::Preview;
use crate::tool::{Handler, Implementation};

/// Which way a type's values go.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Input,
    Output,
}

/// The schema of a type, as a model should see it.
pub(crate) fn schema_of<T: JsonSchema>(direction: Direction) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(without_rusts_formats));
    let settings = match direction {
        Direction::Input => settings.for_deserialize(),
        Direction::Output => settings.for_serialize(),
    };
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(fields) = schema.as_object_mut() {
        // Rust's type name and the dialect are of no use to a model.
        fields.remove("$schema");
        fields.remove("title");
        let empty = fields.get("type") == Some(&json!("object")) && !fields.contains_key("properties");
        if empty && !fields.contains_key("additionalProperties") {
            fields.insert("additionalProperties".to_owned(), json!(false));
        }
    }
    schema
}

/// Names of Rust's number types are no formats of JSON Schema: strict readers warn of them, and the
/// bounds next to them say all there is to say.
fn without_rusts_formats(schema: &mut schemars::Schema) {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let size = format.trim_start_matches("uint").trim_start_matches("int");
    let is_rusts = matches!(format, "float" | "double")
        || (format.starts_with(['u', 'i']) && matches!(size, "" | "8" | "16" | "32" | "64" | "128"));
    if is_rusts {
        schema.remove("format");
    }
}

/// A handler whose author promises that its first step is short.
pub(crate) struct Instant(pub(crate) Arc<dyn Handler>);

impl Handler for Instant {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        self.0.call(arguments, context)
    }

    fn implementation(&self) -> Implementation {
        self.0.implementation()
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }

    fn preview(
        &self,
        arguments: &Value,
        context: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        self.0.preview(arguments, context)
    }

    fn needs_preview(&self) -> bool {
        self.0.needs_preview()
    }

    fn undoes_on_error(&self) -> bool {
        self.0.undoes_on_error()
    }

    fn parts(&self) -> Vec<String> {
        self.0.parts()
    }
}

/// Makes the preview of a call.
pub(crate) type PreviewWith =
    Arc<dyn Fn(Value, Context) -> BoxFuture<'static, Result<Preview, ToolError>> + Send + Sync>;

/// A handler with its own preview, without which nobody is asked.
pub(crate) struct Previewed {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) preview: PreviewWith,
}

impl Handler for Previewed {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        self.handler.call(arguments, context)
    }

    fn implementation(&self) -> Implementation {
        self.handler.implementation()
    }

    fn is_instant(&self) -> bool {
        self.handler.is_instant()
    }

    fn is_light(&self) -> bool {
        self.handler.is_light()
    }

    fn fingerprint(&self) -> String {
        self.handler.fingerprint()
    }

    fn mcp_definition(&self) -> Option<Arc<RawValue>> {
        self.handler.mcp_definition()
    }

    fn attached_says_no_more(&self, attached: &RawValue, result: &Value) -> bool {
        self.handler.attached_says_no_more(attached, result)
    }

    fn preview(
        &self,
        arguments: &Value,
        context: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        Some((self.preview)(arguments.clone(), context))
    }

    fn needs_preview(&self) -> bool {
        true
    }

    fn undoes_on_error(&self) -> bool {
        self.handler.undoes_on_error()
    }

    fn parts(&self) -> Vec<String> {
        self.handler.parts()
    }
}

/// A closure over JSON.
pub(crate) struct JsonFunction<F>(pub(crate) F);

impl<F, R> Handler for JsonFunction<F>
where
    F: Fn(Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin((self.0)(arguments, context))
    }
}

/// A function over Rust types.
pub(crate) struct TypedFunction<F, I, O> {
    function: F,
    types: PhantomData<fn(I) -> O>,
}

impl<F, I, O> TypedFunction<F, I, O> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, types: PhantomData }
    }
}

impl<I, O, F, R> Handler for TypedFunction<F, I, O>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    F: Fn(I, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        // What the schema lets through can still be too much for the type, such as 300 for a u8.
        let input = match serde_json::from_value(arguments) {
            Ok(input) => input,
            Err(error) => {
                let field = FieldError::new("", "arguments of the tool's own types", error.to_string());
                let error = ToolError::new(ErrorCode::ValidationFailed, field.message.clone())
                    .with_fields(vec![field]);
                return Box::pin(std::future::ready(Err(error)));
            }
        };
        let running = (self.function)(input, context);
        Box::pin(async move {
            let output = running.await?;
            serde_json::to_value(output)
                .map_err(|error| ToolError::failed("the tool's answer is not JSON").with_source(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Numbers {
        a: u64,
        b: Option<usize>,
        c: Vec<i32>,
        d: f64,
        #[schemars(extend("format" = "uri"))]
        e: String,
    }

    #[test]
    fn formats_that_only_rust_knows_are_left_out() {
        let text = schema_of::<Numbers>(Direction::Input).to_string();
        assert_eq!(text.matches("\"format\"").count(), 1, "{text}");
        assert!(text.contains("\"format\":\"uri\"") && text.contains("\"minimum\":0"), "{text}");
    }
}
