import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.transforms.ExtractNewRecordState;
import java.io.ByteArrayOutputStream;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Runs Debezium's engine once for each file of properties that it is given, and writes what connectors emit as a Kafka Connect
 * worker would, in several forms at once: a line of JSON a record, bytes in base64.
 *
 * Prints "snapshot NAME" when an engine has taken its snapshot, and ends when every engine has seen a row of the table "finish"
 * whose key is "end".
 */
public class Record {
    interface Form {
        /** Key and value as bytes; null where the form has no record. */
        byte[][] encode(SourceRecord record) throws Exception;

        default SourceRecord changed(SourceRecord record) {
            return record;
        }
    }

    static class Json implements Form {
        private final JsonConverter keys = new JsonConverter();
        private final JsonConverter values = new JsonConverter();

        Json(boolean schemas) {
            keys.configure(Map.of("schemas.enable", schemas), true);
            values.configure(Map.of("schemas.enable", schemas), false);
        }

        public byte[][] encode(SourceRecord record) {
            byte[] key = record.key() == null ? null : keys.fromConnectData(record.topic(), record.keySchema(), record.key());
            byte[] value = record.value() == null ? null : values.fromConnectData(record.topic(), record.valueSchema(), record.value());
            return new byte[][] {key, value};
        }
    }

    static class Flat extends Json {
        private final ExtractNewRecordState<SourceRecord> transform = new ExtractNewRecordState<>();

        Flat(boolean schemas, Map<String, String> settings) {
            super(schemas);
            transform.configure(settings);
        }

        public SourceRecord changed(SourceRecord record) {
            return transform.apply(record);
        }
    }

    /** Apicurio's schemas and data, in the frame of Confluent's registry, with ids of our own. */
    static class Avro implements Form {
        private final AvroData data = new AvroData(new AvroDataConfig(Map.of("enhanced.avro.schema.support", true)));
        final Map<String, Integer> ids = new LinkedHashMap<>();

        public byte[][] encode(SourceRecord record) throws Exception {
            return new byte[][] {framed(record.keySchema(), record.key()), framed(record.valueSchema(), record.value())};
        }

        private byte[] framed(Schema schema, Object value) throws Exception {
            if (value == null) {
                return null;
            }
            org.apache.avro.Schema written = data.fromConnectSchema(schema);
            int id = ids.computeIfAbsent(written.toString(), text -> ids.size() + 1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.write(ByteBuffer.allocate(5).put((byte) 0).putInt(id).array());
            BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
            new GenericDatumWriter<Object>(written).write(data.fromConnectData(schema, value), encoder);
            encoder.flush();
            return out.toByteArray();
        }
    }

    static Form form(String name) {
        String fields = "op,db,schema,table,lsn,sequence,file,pos,row,source.ts_ms";
        switch (name) {
            case "plain":
                return new Json(false);
            case "schemas":
                return new Json(true);
            case "avro":
                return new Avro();
            case "flat":
                return new Flat(false, Map.of("delete.tombstone.handling.mode", "rewrite", "add.fields", fields));
            case "flat-schemas":
                return new Flat(true, Map.of("delete.tombstone.handling.mode", "rewrite", "add.fields", fields));
            case "flat-tombstones":
                return new Flat(false, Map.of("delete.tombstone.handling.mode", "tombstone"));
            default:
                throw new IllegalArgumentException(name);
        }
    }

    static class Recorder implements DebeziumEngine.ChangeConsumer<RecordChangeEvent<SourceRecord>> {
        private final String name;
        private final Map<String, Form> forms = new LinkedHashMap<>();
        private final Map<String, Writer> files = new HashMap<>();
        private final Path place;
        final CountDownLatch done = new CountDownLatch(1);

        Recorder(String name, String[] forms, Path place) throws Exception {
            this.name = name;
            this.place = place;
            for (String each : forms) {
                this.forms.put(each, form(each));
                files.put(each, Files.newBufferedWriter(place.resolve(name + "." + each + ".jsonl")));
            }
        }

        public void handleBatch(
                List<RecordChangeEvent<SourceRecord>> records,
                DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
                throws InterruptedException {
            for (RecordChangeEvent<SourceRecord> event : records) {
                try {
                    write(event.record());
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
                committer.markProcessed(event);
            }
            committer.markBatchFinished();
        }

        private void write(SourceRecord record) throws Exception {
            if (done.getCount() == 0) {
                return;
            }
            for (Map.Entry<String, Form> each : forms.entrySet()) {
                SourceRecord changed = each.getValue().changed(record);
                if (changed == null) {
                    continue;
                }
                byte[][] encoded = each.getValue().encode(changed);
                StringBuilder headers = new StringBuilder();
                JsonConverter plain = new JsonConverter();
                plain.configure(Map.of("schemas.enable", false), false);
                for (Header header : changed.headers()) {
                    headers.append(headers.length() == 0 ? "" : ", ");
                    headers.append("[\"" + header.key() + "\", " + text(plain.fromConnectData("", header.schema(), header.value())) + "]");
                }
                files.get(each.getKey())
                        .write("{\"topic\": \"" + changed.topic() + "\", \"key\": " + text(encoded[0]) + ", \"value\": "
                                + text(encoded[1]) + ", \"headers\": [" + headers + "]}\n");
            }
            look(record);
        }

        private void look(SourceRecord record) throws Exception {
            if (!(record.value() instanceof Struct)) {
                return;
            }
            Struct value = (Struct) record.value();
            if (value.schema().field("source") == null || value.schema().field("after") == null) {
                return;
            }
            Struct source = value.getStruct("source");
            String snapshot = source.getString("snapshot");
            if ("last".equals(snapshot)) {
                System.out.println("snapshot " + name);
                System.out.flush();
            }
            if ("finish".equals(source.getString("table")) && value.getStruct("after") != null
                    && "end".equals(value.getStruct("after").getString("id"))) {
                for (Writer each : files.values()) {
                    each.close();
                }
                for (Map.Entry<String, Form> each : forms.entrySet()) {
                    if (each.getValue() instanceof Avro) {
                        StringBuilder lines = new StringBuilder();
                        ((Avro) each.getValue()).ids.forEach((text, id) -> lines.append(text).append("\n"));
                        Files.writeString(place.resolve(name + "." + each.getKey() + ".avsc"), lines.toString());
                    }
                }
                done.countDown();
            }
        }

        private static String text(byte[] bytes) {
            return bytes == null ? "null" : "\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path place = Path.of(arguments[0]);
        Map<Recorder, DebeziumEngine<?>> engines = new LinkedHashMap<>();
        for (int index = 1; index < arguments.length; index++) {
            Properties settings = new Properties();
            try (var reader = Files.newBufferedReader(Path.of(arguments[index]))) {
                settings.load(reader);
            }
            String[] forms = ((String) settings.remove("forms")).split(",");
            Recorder recorder = new Recorder(settings.getProperty("name"), forms, place);
            DebeziumEngine<?> engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                    .using(settings)
                    .using((success, message, error) -> {
                        if (!success) {
                            System.err.println(message);
                            if (error != null) {
                                error.printStackTrace();
                            }
                            System.exit(1);
                        }
                    })
                    .notifying(recorder)
                    .build();
            engines.put(recorder, engine);
            Thread thread = new Thread(engine, settings.getProperty("name"));
            thread.setDaemon(true);
            thread.start();
        }
        for (Recorder each : engines.keySet()) {
            each.done.await();
        }
        for (DebeziumEngine<?> each : engines.values()) {
            each.close();
        }
        System.out.println("done");
        System.exit(0);
    }
}
