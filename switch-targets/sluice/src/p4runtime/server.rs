//! The P4Runtime service: each call goes to the file that knows it.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool};
use prost_types::Any;
use tokio::sync::mpsc;
use tokio_stream::Iter;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::connections::admission::Admitted;
use crate::connections::tls::Caller;
use crate::p4runtime::intake::{Intake, Longest, MemoryShare};
use crate::p4runtime::state::Device;
use crate::p4runtime::{pipeline_config, read, session, write};
use crate::proto::DESCRIPTORS;
use crate::proto::p4rt::p4_runtime_server::{self, P4Runtime, P4RuntimeServer};
use crate::proto::p4rt::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, WriteRequest, WriteResponse,
};

/// The specification that this follows.
const API_VERSION: &str = "1.5.0";
/// This program and its version (RFC 9110 section 10.2.4), for clients that have the right to ask.
const PRODUCT: &str = concat!("sluice/", env!("CARGO_PKG_VERSION"));
/// Bytes of a controller's longest request; a program's JSON is the reason.
const MAX_REQUEST: usize = 64 << 20;
/// Bytes of a reader's longest request.
const MAX_QUESTION: usize = 1 << 20;
/// A client that does not answer for these two together is gone, and with it the primary.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Calls of one connection at once.
const MAX_CALLS: u32 = 64;
/// Bytes of a request's headers together.
const MAX_HEADERS: u32 = 16 << 10;
/// Bytes of the longest message of a stream: a packet, or a role with its config.
const MAX_MESSAGE: usize = 256 << 10;
/// Bytes in memory for one of a config that is read: the message, and the same encoded.
const CONFIG: usize = 4;

struct Service(Arc<Device>);

/// # Errors
/// The descriptors that the messages are generated from are not whole.
pub fn router(device: Arc<Device>) -> Result<Router, DescriptorError> {
    let pool = DescriptorPool::decode(DESCRIPTORS)?;
    let methods = pool.get_service_by_name(p4_runtime_server::SERVICE_NAME);
    let methods = methods.iter().flat_map(|it| it.methods());
    let memory = Arc::clone(&device.memory);
    let service = P4RuntimeServer::new(Service(device));
    let intake = Intake::new(
        service.clone().max_decoding_message_size(MAX_REQUEST),
        service.max_decoding_message_size(MAX_MESSAGE),
        memory,
        methods,
        Longest {
            controller: MAX_REQUEST,
            reader: MAX_QUESTION,
        },
    );
    Ok(Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_WITHIN))
        .max_concurrent_streams(Some(MAX_CALLS))
        .http2_max_header_list_size(Some(MAX_HEADERS))
        .add_service(intake))
}

/// An answer that takes its share of memory until the client has it.
fn holding<T>(share: MemoryShare, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(Arc::new(share));
    response
}

/// The warning of a developer's switch, which has no keys.
fn unprotected() -> Any {
    Any {
        type_url: "type.googleapis.com/google.protobuf.StringValue".into(),
        value: String::from("sluice dev: for development only, without authentication")
            .encode_to_vec(),
    }
}

fn caller_of<T>(request: &Request<T>) -> Caller {
    let client = request.extensions().get::<Admitted>();
    client.map_or(Caller::Reader, |client| client.caller)
}

fn writes<T>(request: &Request<T>) -> Result<(), Status> {
    match caller_of(request) {
        Caller::Controller => Ok(()),
        Caller::Reader => Err(Status::permission_denied(
            "this certificate is for reading alone",
        )),
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        writes(&request)?;
        let done = write::write(&self.0, request.into_inner()).await;
        let code = done.as_ref().map_or_else(Status::code, |()| Code::Ok);
        self.0.requests.answered(code);
        done.map(|()| Response::new(WriteResponse {}))
    }

    type ReadStream = Iter<std::vec::IntoIter<read::Response>>;

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let caller = caller_of(&request);
        // A controller waits for one reader's call at most.
        let _turn_of_readers = match caller {
            Caller::Reader => Some(self.0.readers.lock().await),
            Caller::Controller => None,
        };
        let _turn = self.0.reading.lock().await;
        let responses = read::read(&self.0, request.into_inner()).await?;
        let mut share = self.0.memory.share(caller);
        share.grow(read::size(&responses))?;
        Ok(holding(share, tokio_stream::iter(responses)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        writes(&request)?;
        pipeline_config::set(&self.0, request.into_inner()).await?;
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let caller = caller_of(&request);
        let config = pipeline_config::get(&self.0, request.into_inner()).await?;
        let mut share = self.0.memory.share(caller);
        share.grow(CONFIG * config.as_ref().map_or(0, Message::encoded_len))?;
        Ok(holding(
            share,
            GetForwardingPipelineConfigResponse { config },
        ))
    }

    type StreamChannelStream = ReceiverStream<session::Outgoing>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (messages, outgoing) = mpsc::channel(session::OUTBOX);
        tokio::spawn(session::serve(
            Arc::clone(&self.0),
            caller_of(&request),
            request.into_inner(),
            messages,
        ));
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        let device_id = request.into_inner().device_id;
        if device_id != 0 {
            self.0.check_id(device_id)?;
        }
        let mut answer = Response::new(CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.into(),
            experimental: self.0.keks.is_none().then(unprotected),
        });
        let product = MetadataValue::from_static(PRODUCT);
        answer.metadata_mut().insert("server", product);
        Ok(answer)
    }
}
