import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Apache Kafka's own message classes as an oracle: JSON to bytes and bytes to bytes, for every message that its jars hold.
 *
 * <p>One JSON question a line on standard input, one JSON answer a line on standard output, {"ok": value} or {"error": text}:
 * {"do": "list"} names every message with its package and its lowest and highest version; {"do": "encode", "message", "version",
 * "value"} gives the bytes of a value in hex; {"do": "reencode", "message", "version", "bytes"} reads bytes, complains of what is left
 * over, and gives the bytes that Kafka writes for what it has read. A message is named as in its schema: ProduceRequest.
 */
public class MessageOracle {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final String CONVERTER = "JsonConverter.class";

    /** A message class and the class that converts it from JSON, which is how it is found. */
    private record Known(Class<?> type, Method fromJson, short lowest, short highest) {
        Message blank() throws ReflectiveOperationException {
            Constructor<?> constructor = type.getConstructor();
            return (Message) constructor.newInstance();
        }
    }

    private final Map<String, Known> messages = new TreeMap<>();

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        MessageOracle oracle = new MessageOracle();
        for (File jar : new File(arguments[0]).listFiles((directory, name) -> name.startsWith("kafka-"))) oracle.learn(jar);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", oracle.answer(mapper.readTree(line)));
            } catch (Throwable thrown) {
                Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
                answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            answers.println(mapper.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    private void learn(File jar) throws Exception {
        try (JarFile opened = new JarFile(jar)) {
            for (JarEntry entry : (Iterable<JarEntry>) opened.stream()::iterator) {
                String name = entry.getName();
                // Nested converters belong to the structs inside a message.
                if (!name.endsWith(CONVERTER) || name.contains("$")) continue;
                String type = name.substring(0, name.length() - CONVERTER.length()).replace('/', '.');
                learn(Class.forName(type), Class.forName(name.substring(0, name.length() - ".class".length()).replace('/', '.')));
            }
        }
    }

    private void learn(Class<?> type, Class<?> converter) throws Exception {
        String simple = type.getSimpleName();
        boolean spoken = simple.endsWith("RequestData") || simple.endsWith("ResponseData") || simple.endsWith("HeaderData");
        String name = spoken ? simple.substring(0, simple.length() - "Data".length()) : simple;
        Known known = new Known(
            type,
            converter.getMethod("read", JsonNode.class, short.class),
            type.getField("LOWEST_SUPPORTED_VERSION").getShort(null),
            type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null));
        if (messages.put(name, known) != null) throw new IllegalStateException("two messages are called " + name);
    }

    private JsonNode answer(JsonNode question) throws Exception {
        if (question.get("do").asText().equals("list")) return list();
        Known known = messages.get(question.get("message").asText());
        if (known == null) throw new IllegalArgumentException("no such message: " + question.get("message"));
        short version = (short) question.get("version").asInt();
        return switch (question.get("do").asText()) {
            case "encode" -> written((Message) known.fromJson().invoke(null, question.get("value"), version), version);
            case "reencode" -> written(read(known, version, HexFormat.of().parseHex(question.get("bytes").asText())), version);
            default -> throw new IllegalArgumentException("no such question: " + question.get("do"));
        };
    }

    private JsonNode list() {
        ArrayNode found = JSON.arrayNode();
        messages.forEach((name, known) -> {
            ObjectNode one = found.addObject();
            one.put("message", name);
            one.put("package", known.type().getPackageName());
            one.put("lowest", known.lowest());
            one.put("highest", known.highest());
        });
        return found;
    }

    private static Message read(Known known, short version, byte[] bytes) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Message message = known.blank();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) throw new IllegalArgumentException(buffer.remaining() + " bytes are left over");
        return message;
    }

    private static JsonNode written(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return JSON.textNode(HexFormat.of().formatHex(bytes));
    }
}
