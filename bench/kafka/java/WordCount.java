import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with Kafka Streams under exactly_once_v2, is stopped half way and started again, and checks that the newest
 * count of every word is the number of times it was written: {@code java WordCount.java BROKER}.
 */
public final class WordCount {
    private static final int LINES = 2000;
    private static final List<String> WORDS = List.of("ant", "bee", "cow", "dog", "eel", "fox", "gnu");

    public static void main(String[] args) throws Exception {
        String run = Long.toString(System.currentTimeMillis(), 36);
        String in = "lines-" + run;
        String out = "counts-" + run;
        Properties clients = new Properties();
        clients.put("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(clients)) {
            admin.createTopics(List.of(new NewTopic(in, 4, (short) 1), new NewTopic(out, 4, (short) 1))).all().get();
        }
        Map<String, Long> want = new TreeMap<>();
        write(clients, in, 0, want);
        count(clients, run, in, out, want);
        write(clients, in, LINES, want);
        count(clients, run, in, out, want);
        System.out.println("PASS: " + want);
    }

    private static void write(Properties clients, String topic, int from, Map<String, Long> want)
            throws ExecutionException, InterruptedException {
        try (KafkaProducer<String, String> p = new KafkaProducer<>(clients, new StringSerializer(), new StringSerializer())) {
            for (int i = from; i < from + LINES; i++) {
                String a = WORDS.get(i % WORDS.size());
                String b = WORDS.get(i / 3 % WORDS.size());
                want.merge(a, 1L, Long::sum);
                want.merge(b, 1L, Long::sum);
                p.send(new ProducerRecord<>(topic, Integer.toString(i), a + " " + b));
            }
            p.flush();
        }
    }

    /** Runs the application until the counts that committed readers see are the wanted ones. */
    private static void count(Properties clients, String run, String in, String out, Map<String, Long> want) {
        Properties p = new Properties();
        p.putAll(clients);
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "words-" + run);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir") + "/words-" + run);
        p.put("auto.offset.reset", "earliest");
        StreamsBuilder b = new StreamsBuilder();
        b.<String, String>stream(in)
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        Properties c = new Properties();
        c.putAll(clients);
        c.put("group.id", "reader-" + run + "-" + System.nanoTime());
        c.put("auto.offset.reset", "earliest");
        c.put("isolation.level", "read_committed");
        Map<String, Long> got = new TreeMap<>();
        try (KafkaStreams streams = new KafkaStreams(b.build(), p);
                KafkaConsumer<String, Long> reader =
                        new KafkaConsumer<>(c, new StringDeserializer(), new LongDeserializer())) {
            streams.start();
            reader.subscribe(Collections.singleton(out));
            long deadline = System.nanoTime() + Duration.ofMinutes(3).toNanos();
            while (!got.equals(want)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("want " + want + ", have " + got);
                }
                for (ConsumerRecord<String, Long> r : reader.poll(Duration.ofMillis(500))) {
                    Long before = got.put(r.key(), r.value());
                    if (before != null && r.value() <= before) {
                        throw new IllegalStateException(r.key() + " went from " + before + " to " + r.value());
                    }
                    if (r.value() > want.get(r.key())) {
                        throw new IllegalStateException(r.key() + " counted " + r.value() + " of " + want.get(r.key()));
                    }
                }
            }
        }
        System.out.println("ok: " + got);
    }
}
