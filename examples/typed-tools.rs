//! A typed tool in twenty lines: the schema comes from the types, the model's mistake is mended.
//!
//! `cargo run -p helve-examples --example typed-tools`

use helve::{Call, Context, Runtime, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// How far, in kilometres.
    distance_km: f64,
    /// How long it takes, in hours.
    hours: f64,
}

#[derive(Serialize, JsonSchema)]
struct Speed {
    km_per_hour: f64,
}

async fn speed(trip: Trip, _context: Context) -> Result<Speed, ToolError> {
    if trip.hours <= 0.0 {
        return Err(ToolError::failed("a trip takes some time").suggest("give more than zero hours"));
    }
    Ok(Speed { km_per_hour: trip.distance_km / trip.hours })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Tool::function("speed", "Works out the average speed of a trip.", speed).read_only();
    let runtime = Runtime::builder().tool(tool)?.build();

    let outcome = runtime.call(Call::new("speed", json!({ "distance_km": "120", "hours": 1.5 }))).await;
    println!("mended:  {}", outcome.repairs[0].detail);
    println!("result:  {}", outcome.into_result()?);

    let outcome = runtime.call(Call::new("sped", json!({}))).await;
    println!("mistake: {}", outcome.into_result().expect_err("there is no such tool"));

    let outcome = runtime.call(Call::new("speed", json!({ "distance_km": true }))).await;
    println!("mistake: {}", outcome.into_result().expect_err("these are no arguments"));
    Ok(())
}
